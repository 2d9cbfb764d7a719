"""Models of a device: the surrogate behind recommendation and stopping."""
