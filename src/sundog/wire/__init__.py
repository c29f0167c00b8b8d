"""The words of the protocol between processes. Pure: constants and shapes, no socket."""
