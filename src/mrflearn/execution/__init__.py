"""Where the work runs: which device, this process, many processes."""
