"""Turning values into bytes and buffers, and back. Pure: no socket, no thread, no process."""
