"""Reads `cargo metadata` and fails if a package needs a newer rustc than the workspace says it needs itself."""

import json
import sys


def number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


metadata = json.load(sys.stdin)
members = set(metadata["workspace_members"])
ours = {package["rust_version"] for package in metadata["packages"] if package["id"] in members}
if len(ours) != 1 or None in ours:
    sys.exit(f"the crates of the workspace do not agree on a rust-version: {ours}")
[promised] = ours
others = [package for package in metadata["packages"] if package["rust_version"]]
newer = [package for package in others if number(package["rust_version"]) > number(promised + ".0")]
for package in newer:
    print(f"{package['name']} {package['version']} needs rustc {package['rust_version']}; we promise {promised}")
print(f"{len(others)} packages say what they need; {len(newer)} need more than {promised}")
sys.exit(bool(newer))
