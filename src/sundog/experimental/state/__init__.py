"""The state API under its older path; see `api`."""
