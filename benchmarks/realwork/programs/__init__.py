"""One module per workload: the work, the serial result, and one function per way of writing the program."""
