"""Print the oldest versions that setup.cfg allows for the package and its fast tests, for pip."""

import configparser
import re

config = configparser.ConfigParser()
config.read("setup.cfg")
extras = config["options.extras_require"]
for line in (config["options"]["install_requires"] + extras["test"]).splitlines():
    found = re.fullmatch(r"(\S+) >=(\S+)", line.strip())
    if found:
        print("{}=={}".format(*found.groups()))
