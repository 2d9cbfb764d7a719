"""A frozen config in the trainings of other libraries: `tuner.callbacks.huggingface`, `tuner.callbacks.lightning`."""
