import os

# A child process of a test finds the package where the test found it.
os.environ["PYTHONPATH"] = os.pathsep.join(
    filter(None, [os.path.abspath("src"), os.environ.get("PYTHONPATH", "")])
)
