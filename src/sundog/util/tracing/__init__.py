"""Tracing with OpenTelemetry: hooks for `init(_tracing_startup_hook=…)`. `sundog.observe.spans` makes the spans."""
