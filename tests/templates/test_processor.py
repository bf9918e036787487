"""What is asked of a processor while another thread lets its state go."""

from __future__ import annotations

from unittest.mock import Mock, PropertyMock, patch

from templates.processor import Processor


def test_bytes_are_told_while_the_state_is_let_go() -> None:
    reads = PropertyMock(side_effect=[Mock(nbytes=7), None])
    with patch.object(Processor, "_loaded", reads, create=True):
        processor = object.__new__(Processor)
        assert processor.bytes_in_memory == 7
        assert processor.bytes_in_memory == 0
