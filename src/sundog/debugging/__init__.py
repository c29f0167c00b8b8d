"""The debugger for tasks: a pdb that a terminal attaches to. Nothing of it is imported before the first breakpoint."""
