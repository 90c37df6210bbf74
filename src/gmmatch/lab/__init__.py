"""The laboratory: the paper's experiments, networks, training signals and corruptions.

It uses the core through public names and registries; the core never imports it. Its methods reach the core
as entry points of the package (`pyproject.toml`).
"""
