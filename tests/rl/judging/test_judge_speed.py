"""Judging must cost far less than a training step; the clock is the process's own."""

import time

from rl.judging.embedded import EmbeddedJudge


def test_eight_replies_with_six_nodes(encoder, model_replies):
    wide = [item.request for item in model_replies if len(item.request.nodes) == 6][:8]
    assert len(wide) == 8
    judge = EmbeddedJudge(encoder)
    judge.judge([item.request for item in model_replies[:1]])  # loads the model
    start = time.process_time()
    judge.judge(wide)
    assert time.process_time() - start < 5.0  # about 0.5 s on an idle core
