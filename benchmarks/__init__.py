"""Side-by-side measurements; each module prints JSON when run as `python -m benchmarks.NAME`."""
