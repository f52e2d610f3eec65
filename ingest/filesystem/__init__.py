"""Sources of file system logs: parallel file systems and the kernel's audit."""
