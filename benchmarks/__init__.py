"""Side-by-side measurements: ``python -m benchmarks.NAME`` prints JSON."""
