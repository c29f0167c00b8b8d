"""Where values live: shared-memory segments, with the disk behind them."""
