"""Prints what pip must install to build and test: the build system's, the package's and the extras' requirements."""

import tomllib

with open("pyproject.toml", "rb") as f:
    config = tomllib.load(f)

wanted = list(config["build-system"]["requires"]) + list(config["project"]["dependencies"])
for extra in config["project"]["optional-dependencies"].values():
    wanted += extra
print(" ".join(dict.fromkeys(wanted)))
