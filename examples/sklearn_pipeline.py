"""GMMatching as a step of an imbalanced-learn pipeline: rows are left out in training alone.

python examples/sklearn_pipeline.py
"""

from imblearn.pipeline import make_pipeline
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score
from sklearn.model_selection import StratifiedKFold
from sklearn.preprocessing import StandardScaler

import gmmatch
from gmmatch import corrupt


def main():
    rows, truth = load_digits(return_X_y=True)
    noisy, _ = corrupt.corrupt_labels(truth, share=0.3, rng=0)
    learner = LogisticRegression(max_iter=500)
    models = {
        "all rows": make_pipeline(StandardScaler(), learner),
        "the best 30 %": make_pipeline(StandardScaler(), gmmatch.GMMatching(keep=0.3), learner),
    }
    for name, model in models.items():
        found = []
        for train, test in StratifiedKFold(3, shuffle=True, random_state=0).split(rows, noisy):
            model.fit(rows[train], noisy[train])
            found.append(accuracy_score(truth[test], model.predict(rows[test])))
        print(f"{name}: accuracy {sum(found) / len(found):.1%} against the true labels")


if __name__ == "__main__":
    main()
