"""What every process that creates refs runs: submit, resolve, recover."""
