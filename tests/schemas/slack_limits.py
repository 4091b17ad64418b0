"""Checks the blocks that crossed the wire in the tests against the length checks of
Slack's own Python SDK.

    python slack_limits.py RECORD.jsonl...
"""
import json
import sys

from slack_sdk.models.blocks import Block

checked = 0
wrong = []
for path in sys.argv[1:]:
    with open(path, encoding="utf-8") as lines:
        for line in map(json.loads, lines):
            blocks = line["body"].get("blocks") if line["kind"] == "call" else None
            if line.get("forced") or not isinstance(blocks, list) or not blocks:
                continue
            checked += 1
            try:
                read = Block.parse_all(blocks)
                assert len(read) == len(blocks) and all(read), "a block is unknown"
                assert len(blocks) <= 50, "more than 50 blocks"
                for block in read:
                    block.to_dict()
            except Exception as error:  # the SDK raises several kinds
                wrong.append((str(error), json.dumps(blocks)[:400]))
print(f"{checked} messages checked")
for error, blocks in wrong[:10]:
    print(error, blocks, file=sys.stderr)
if checked == 0 or wrong:
    sys.exit(f"{len(wrong)} messages are too long" if wrong else "nothing was recorded")
