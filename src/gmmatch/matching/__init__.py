"""What to match and how: features, targets, budgets, the greedy loop, batches and streams."""
