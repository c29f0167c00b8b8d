"""Graph nodes under Ray's path `serve.dag`."""

from sundog.dag import InputNode as InputNode
