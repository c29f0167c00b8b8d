"""Serve beside Ray Serve and plain uvicorn + FastAPI, in turn."""
