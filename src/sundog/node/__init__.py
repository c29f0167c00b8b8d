"""The node program: control only, never on the hot path. Launched, never imported by other code."""
