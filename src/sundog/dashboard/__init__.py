"""What people and other programs see of a session over HTTP: the page and the metrics.

`metrics` modules turn records and the node's answers into Prometheus families and a Grafana board; `page` modules draw
them in a browser. Nothing here is on a task's way, and a plain `import sundog` loads none of it. Needs the extra
`sundog[default]`.
"""
