"""The page in a real browser: clicks, reads, and takes a picture."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

webdriver = pytest.importorskip("selenium.webdriver")
DRIVER = shutil.which("chromedriver")
if DRIVER is None:
    pytest.skip("needs chromium and chromedriver", allow_module_level=True)

from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.support.ui import Select, WebDriverWait  # noqa: E402


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    options = webdriver.ChromeOptions()
    for choice in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage"):
        options.add_argument(choice)
    options.add_argument("--window-size=1000,900")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    found = webdriver.Chrome(options, webdriver.ChromeService(DRIVER))
    yield found
    found.quit()


def ask(browser: Any, model: str, task: str, text: str) -> Any:
    """Fills in the form, clicks, and waits for an answer or an error."""
    Select(browser.find_element(By.ID, "model")).select_by_value(model)
    Select(browser.find_element(By.ID, "task")).select_by_visible_text(task)
    if text:
        field = browser.find_element(By.ID, "text")
        field.clear()
        field.send_keys(text)
    browser.find_element(By.ID, "ask").click()
    answer = browser.find_element(By.ID, "answer")
    error = browser.find_element(By.ID, "error")
    WebDriverWait(browser, 30).until(
        lambda _: answer.find_elements(By.XPATH, "./*") or error.text.strip()
    )
    return answer


@pytest.fixture(scope="module")
def page(browser: Any, address: str) -> Any:
    browser.get(address + "/")
    WebDriverWait(browser, 30).until(lambda _: browser.find_element(By.ID, "text").text is not None)
    WebDriverWait(browser, 30).until(lambda _: browser.find_elements(By.CSS_SELECTOR, "option"))
    return browser


def test_a_sentence_is_tagged(page: Any, models: dict[str, Any]) -> None:
    answer = ask(page, "tagger", "tag", "the dog barks")
    labels = [node.text for node in answer.find_elements(By.CSS_SELECTOR, ".token .label")]
    assert labels == ["DT", "NN", "VBZ"]
    assert "%" in answer.find_element(By.CSS_SELECTOR, ".token small").text
    assert len(answer.find_elements(By.CSS_SELECTOR, "tr")) == 6  # header and five labellings
    folder = os.environ.get("MRFLEARN_SCREENSHOTS")
    if folder:
        page.save_screenshot(str(Path(folder) / "serve.png"))
    assert page.get_screenshot_as_png().startswith(b"\x89PNG")


def test_a_gap_is_filled(page: Any, models: dict[str, Any]) -> None:
    answer = ask(page, "words", "fill", "the _ barks")
    best = answer.find_element(By.CSS_SELECTOR, "td").text
    assert best == models["words"].fill(["the", "_", "barks"], 1)[0][0]


def test_a_sentence_is_parsed(page: Any) -> None:
    answer = ask(page, "composite", "parse", "the dog barks")
    words = [node.text for node in answer.find_elements(By.CSS_SELECTOR, ".children > span")]
    assert words == ["the", "dog", "barks"]


def test_a_field_shows_its_couplings(page: Any) -> None:
    answer = ask(page, "grid", "couplings", "")
    assert len(answer.find_elements(By.CSS_SELECTOR, ".cells tbody td")) == 16
    named = [node.text for node in answer.find_elements(By.CSS_SELECTOR, "svg text")]
    assert named == ["0", "1", "2", "3"]
    assert len(answer.find_elements(By.CSS_SELECTOR, "svg line")) == 4


def test_enter_asks_and_an_old_answer_goes(page: Any) -> None:
    ask(page, "words", "fill", "the _ barks")
    Select(page.find_element(By.ID, "model")).select_by_value("ngrams")
    answer = page.find_element(By.ID, "answer")
    assert not answer.find_elements(By.XPATH, "./*")
    page.find_element(By.ID, "text").send_keys("\n")
    WebDriverWait(page, 30).until(lambda _: answer.find_elements(By.CSS_SELECTOR, "td"))


def test_a_mistake_is_told(page: Any) -> None:
    ask(page, "words", "fill", "no gap here")
    assert "gap" in page.find_element(By.ID, "error").text


def test_the_page_asks_for_nothing_else(page: Any, address: str) -> None:
    loaded = page.execute_script(
        "return performance.getEntriesByType('resource').map(entry => entry.name)"
    )
    assert all(name.startswith(address) for name in loaded)
    refused = [entry for entry in page.get_log("browser") if "Content Security" in entry["message"]]
    assert not refused


def test_nothing_is_wider_than_a_telephone(page: Any, models: dict[str, Any]) -> None:
    metrics = {"width": 400, "height": 800, "deviceScaleFactor": 1, "mobile": False}
    page.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    try:
        for model in models:
            Select(page.find_element(By.ID, "model")).select_by_value(model)
            tasks = Select(page.find_element(By.ID, "task"))
            for task in [own.text for own in tasks.options]:
                tasks.select_by_visible_text(task)
                page.find_element(By.ID, "ask").click()
                answer = page.find_element(By.ID, "answer")
                WebDriverWait(page, 30).until(lambda _, own=answer: own.text.strip())
                wide = page.execute_script("return document.documentElement.scrollWidth")
                assert wide <= 400, (model, task)
    finally:
        page.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
