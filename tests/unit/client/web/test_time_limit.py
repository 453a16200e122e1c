from __future__ import annotations

import asyncio

import pytest

from penstock.client.web.time_limit import TimeLimit


def test_should_end_what_takes_too_long() -> None:
    async def slow() -> None:
        async with TimeLimit(0.01):
            await asyncio.sleep(60)

    with pytest.raises(TimeoutError, match=r"0\.01 s"):
        asyncio.run(slow())


def test_should_leave_alone_what_is_done_in_time() -> None:
    async def quick() -> int:
        async with TimeLimit(0.01):
            await asyncio.sleep(0)
        await asyncio.sleep(0.05)
        return 7

    assert asyncio.run(quick()) == 7


def test_should_let_through_errors_and_who_else_cancels() -> None:
    async def fails() -> None:
        async with TimeLimit(60):
            raise ValueError("own")

    async def cancelled() -> None:
        async def waits() -> None:
            async with TimeLimit(60):
                await asyncio.sleep(60)

        task = asyncio.create_task(waits())
        await asyncio.sleep(0)
        task.cancel()
        await task

    with pytest.raises(ValueError, match="own"):
        asyncio.run(fails())
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(cancelled())


def test_should_tell_which_of_two_has_ended() -> None:
    async def nested() -> str:
        try:
            async with TimeLimit(60):
                try:
                    async with TimeLimit(0.01):
                        await asyncio.sleep(60)
                except TimeoutError:
                    await asyncio.sleep(0)
                    return "inner"
        except TimeoutError:
            return "outer"
        return "none"

    assert asyncio.run(nested()) == "inner"
