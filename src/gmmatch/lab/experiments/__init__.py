"""Comparisons: data, methods and measurements put together."""
