import os

from hypothesis import settings

# A child process of a test finds the package where the test found it.
os.environ["PYTHONPATH"] = os.pathsep.join(
    filter(None, [os.path.abspath("src"), os.environ.get("PYTHONPATH", "")])
)

# The same examples in every run, so that a failure is a fact about the change that shows it;
# `HYPOTHESIS_PROFILE=search` looks for new ones.
settings.register_profile("repeat", derandomize=True)
settings.register_profile("search", derandomize=False)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeat"))
