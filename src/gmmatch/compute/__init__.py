"""Who runs a pass over the rows, and in which blocks: the same sums everywhere."""
