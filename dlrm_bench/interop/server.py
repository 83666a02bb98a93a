"""Ask a server that speaks OpenAI's chat completions, until there is an answer."""

from __future__ import annotations

import asyncio
import email.utils
import os
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from dlrm_bench.errors import CannotRunError, MissingPackageError, UsageError
from dlrm_bench.records import Message, Plan

if TYPE_CHECKING:
    from openai import AsyncOpenAI

DEFAULT_KEY = "OPENAI_API_KEY"
FATAL = (401, 403, 404)
"""HTTP statuses that every other question would get as well: a wrong key, model or address."""
PASSING = (408, 409, 425, 429)
"""HTTP statuses below 500 after which the same question may be answered."""
RATE_LIMITED = 429
LONGEST_WAIT_S = 60.0
LONGEST_ASKED_WAIT_S = 900.0
"""The longest that a server's own Retry-After is believed."""


@dataclass(frozen=True)
class Server:
    """Where the model is, and how it is asked.

    Attributes:
        base_url: address of the API, such as `http://localhost:8000/v1`.
        api_key: the key; it is sent to the server, and goes nowhere else.
        concurrency: questions that are open at a time.
        attempts: how often one is asked before it is given up.
        first_wait_s: seconds to wait before the second attempt; twice as long before each further one.
        silence_s: seconds without a word from the server after which an attempt is given up.

    Raises:
        UsageError: the address does not begin with http:// or https://.
    """

    base_url: str
    api_key: str = field(repr=False)
    concurrency: int = 8
    attempts: int = 6
    first_wait_s: float = 1.0
    silence_s: float = 600.0

    def __post_init__(self) -> None:
        if not self.base_url.startswith(("http://", "https://")):
            raise UsageError(f"{self.base_url!r} is no address of an API; one looks like http://localhost:8000/v1")


@dataclass(frozen=True)
class Answer:
    """An answer as it came."""

    text: str
    reasoning: str
    finish_reason: str
    prompt_tokens: int | None
    answer_tokens: int | None
    attempts: int
    seconds: float


def key_from_environment(name: str | None) -> str:
    """Return the API key that an environment variable holds.

    Without a name it is OPENAI_API_KEY, which may be unset: servers of one's own ask for no key.

    Raises:
        UsageError: the variable that was named is not set.
    """
    if name is not None and not os.environ.get(name):
        raise UsageError(f"the environment variable {name} is not set; export it with the server's key in it")
    return os.environ.get(name or DEFAULT_KEY) or "none"


def open_client(server: Server) -> AsyncOpenAI:
    """Return a client for a server.

    Raises:
        MissingPackageError: openai is not installed.
    """
    try:
        from openai import AsyncOpenAI
    except ModuleNotFoundError as error:
        raise MissingPackageError("generate needs openai: pip install 'dlrm-bench[generate]'") from error
    # Its own retries know nothing of the other questions that are open, nor of streams that break.
    return AsyncOpenAI(api_key=server.api_key, base_url=server.base_url, max_retries=0, timeout=server.silence_s)


class UnansweredError(Exception):
    """A question that was given up."""


class Asker:
    """Asks one server, so many questions at a time, and all of them wait when it asks for time."""

    def __init__(self, client: AsyncOpenAI, plan: Plan, server: Server) -> None:
        self._client = client
        self._server = server
        self._open = asyncio.Semaphore(server.concurrency)
        self._not_before = 0.0
        asked = {"model": plan.model, "temperature": plan.temperature, "max_tokens": plan.most_tokens}
        self._asked = {name: value for name, value in asked.items() if value is not None}

    async def ask(self, prompt: Sequence[Message]) -> Answer:
        """Ask until there is an answer.

        Raises:
            UnansweredError: there is none after all attempts, or the server refuses this question.
            CannotRunError: the server refuses every question.
        """
        async with self._open:
            for attempt in range(1, self._server.attempts + 1):
                await asyncio.sleep(self._not_before - time.monotonic())
                try:
                    return await self._once(prompt, attempt)
                except FailedAttemptError as error:
                    if attempt == self._server.attempts:
                        raise UnansweredError(f"{error}, after {attempt} attempts") from None
                    wait = self._wait_s(attempt, error.retry_after_s)
                    if error.rate_limited:
                        self._not_before = max(self._not_before, time.monotonic() + wait)
                await asyncio.sleep(wait)
        raise AssertionError("there is at least one attempt")

    async def _once(self, prompt: Sequence[Message], attempt: int) -> Answer:
        import openai

        start = time.monotonic()
        try:
            text, reasoning, finish_reason, usage = await self._stream(prompt)
        except openai.APIStatusError as error:
            raise self._refusal(error) from None
        except (openai.APIError, OSError, ValueError) as error:
            # A connection that is lost, a stream that breaks, or one that is no JSON.
            raise FailedAttemptError(self._told(error)) from None
        if finish_reason is None:
            raise FailedAttemptError("the answer broke off")
        return Answer(
            text=_sound(text),
            reasoning=_sound(reasoning),
            finish_reason=finish_reason,
            prompt_tokens=usage.prompt_tokens if usage else None,
            answer_tokens=usage.completion_tokens if usage else None,
            attempts=attempt,
            seconds=round(time.monotonic() - start, 3),
        )

    async def _stream(self, prompt: Sequence[Message]) -> tuple[str, str, str | None, Any]:
        # Of its overloads none is for parameters that may be left out.
        create: Any = self._client.chat.completions.create
        messages = [msgspec.structs.asdict(each) for each in prompt]
        text, reasoning, finish_reason, usage = "", "", None, None
        stream = await create(messages=messages, stream=True, **self._asked)
        async for chunk in stream:
            usage = chunk.usage or usage
            for choice in chunk.choices or []:
                text += choice.delta.content or ""
                # Under the one name with DeepSeek and vLLM, under the other with OpenRouter and Ollama.
                thought = getattr(choice.delta, "reasoning_content", None) or getattr(choice.delta, "reasoning", None)
                reasoning += thought or ""
                finish_reason = choice.finish_reason or finish_reason
        return text, reasoning, finish_reason, usage

    def _refusal(self, error: Any) -> Exception:
        message = f"the server says {error.status_code}: {self._told(error)}"
        if error.status_code in FATAL:
            return CannotRunError(message)
        if error.status_code < 500 and error.status_code not in PASSING:
            return UnansweredError(message)
        asked_s = asked_wait_s(error.response.headers)
        if asked_s is not None and asked_s > LONGEST_ASKED_WAIT_S:
            return UnansweredError(f"{message}; it wants to be asked again in {asked_s:.0f} s")
        return FailedAttemptError(message, asked_s, error.status_code == RATE_LIMITED)

    def _told(self, error: Exception) -> str:
        """Return an error's own words in one line, without the key, which some servers repeat."""
        words = " ".join(str(error).split())[:300].rstrip(".") or type(error).__name__
        return words.replace(self._server.api_key, "...") if self._server.api_key != "none" else words

    def _wait_s(self, attempt: int, asked_s: float | None) -> float:
        if asked_s is not None:
            return asked_s
        doubled = min(LONGEST_WAIT_S, self._server.first_wait_s * 2.0 ** (attempt - 1))
        # Spread, so that questions that failed together are not asked together.
        return doubled * random.uniform(0.5, 1.0)


class FailedAttemptError(Exception):
    """An attempt that failed in a way that may pass.

    Attributes:
        retry_after_s: seconds that the server asks to be left alone.
        rate_limited: whether every other question has to wait too.
    """

    def __init__(self, message: str, retry_after_s: float | None = None, rate_limited: bool = False) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s
        self.rate_limited = rate_limited


def asked_wait_s(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that a response asks to wait, which it gives as such or as a date."""
    text = headers.get("retry-after")
    if text is None:
        return None
    try:
        return max(0.0, float(text))
    except ValueError:
        parsed = email.utils.parsedate_tz(text)
    return None if parsed is None else max(0.0, email.utils.mktime_tz(parsed) - time.time())


def _sound(text: str) -> str:
    """Return a text with a question mark for each half of a surrogate pair, which no file can hold."""
    return text.encode("utf-8", "replace").decode("utf-8")
