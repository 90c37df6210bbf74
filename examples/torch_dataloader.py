"""Train a torch model on a selection: once by a subset, once by a sampler.

python examples/torch_dataloader.py
"""

import torch
from sklearn.datasets import load_digits
from torch.utils.data import DataLoader, TensorDataset

import gmmatch
from gmmatch import corrupt


def accuracy(loader, rows, truth):
    """Train a small network on what a loader gives, and return its accuracy."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(60):
        for batch, labels in loader:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(batch), labels).backward()
            optimizer.step()
    return (model(rows).argmax(dim=1) == truth).float().mean().item()


def main():
    digits = load_digits()
    rows, truth = torch.tensor(digits.data / 16, dtype=torch.float32), torch.tensor(digits.target)
    train, test = slice(0, 1400), slice(1400, None)
    noisy, _ = corrupt.corrupt_labels(digits.target[train], share=0.3, rng=0)
    dataset = TensorDataset(rows[train], torch.tensor(noisy))

    for method in ("random", "gm-matching"):
        kept = gmmatch.select(rows[train].numpy(), keep="15%", labels=noisy, method=method)
        subset = DataLoader(kept.apply(dataset), batch_size=32, shuffle=True)
        print(f"{method}: accuracy {accuracy(subset, rows[test], truth[test]):.1%} with {len(kept)} rows")

    # The same rows without a copy of the dataset:
    sampled = DataLoader(dataset, batch_size=32, sampler=kept.sampler())
    print(f"by the sampler: {sum(len(labels) for _, labels in sampled)} rows per epoch")


if __name__ == "__main__":
    main()
