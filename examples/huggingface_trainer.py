"""Hugging Face's Trainer on a selection of a dataset with wrong labels.

python examples/huggingface_trainer.py
"""

import tempfile

import numpy as np
import torch
from datasets import Dataset
from sklearn.datasets import load_digits
from transformers import Trainer, TrainingArguments

import gmmatch
from gmmatch import corrupt


class Classifier(torch.nn.Module):
    """A small network in the form that Trainer expects: a loss where there are labels."""

    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))

    def forward(self, pixels, labels=None):
        logits = self.layers(pixels)
        loss = None if labels is None else torch.nn.functional.cross_entropy(logits, labels)
        return {"loss": loss, "logits": logits}


def main():
    digits = load_digits()
    rows, truth = (digits.data / 16).astype(np.float32), digits.target
    noisy, _ = corrupt.corrupt_labels(truth[:1400], share=0.3, rng=0)
    train = Dataset.from_dict({"pixels": rows[:1400], "labels": noisy})
    test = Dataset.from_dict({"pixels": rows[1400:], "labels": truth[1400:]})

    kept = gmmatch.select(rows[:1400], keep="20%", labels=noisy)
    how = TrainingArguments(
        output_dir=tempfile.mkdtemp(), num_train_epochs=20, per_device_train_batch_size=32,
        learning_rate=0.01, seed=0, use_cpu=True, report_to=[], save_strategy="no",
        logging_strategy="no", disable_tqdm=True,
    )  # fmt: skip
    trainer = Trainer(model=Classifier(), args=how, train_dataset=kept.apply(train))
    trainer.train()
    found = trainer.predict(test).predictions.argmax(axis=1)
    right = (found == truth[1400:]).mean()
    print(f"trained on {len(trainer.train_dataset)} of {len(train)} rows: accuracy {right:.1%}")


if __name__ == "__main__":
    main()
