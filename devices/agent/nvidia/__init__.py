"""NVIDIA desktop and server GPUs: NVML by ctypes, its settings as files for the journal, knobs, meter and board."""
