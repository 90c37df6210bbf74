"""Pick the rows worth training on from a dataset that is partly wrong."""
