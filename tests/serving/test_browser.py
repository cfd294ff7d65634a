"""The page in a real browser: clicks, reads, and takes a picture."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from mrflearn import CRF
from mrflearn.serving import Service, make_server

webdriver = pytest.importorskip("selenium.webdriver")
DRIVER = shutil.which("chromedriver")
if DRIVER is None:
    pytest.skip("needs chromium and chromedriver", allow_module_level=True)

from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402
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


CONTRAST = """
const numbers = text => text.match(/[\\d.]+/g).map(Number);
const linear = c => c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
const light = ([r, g, b]) =>
  0.2126 * linear(r / 255) + 0.7152 * linear(g / 255) + 0.0722 * linear(b / 255);
const behind = node => {
  for (let own = node; own; own = own.parentElement) {
    const colour = numbers(getComputedStyle(own).backgroundColor);
    if (colour.length === 3 || colour[3] === 1) return colour;
  }
  return [255, 255, 255];
};
const low = [];
for (const node of document.querySelectorAll("body *")) {
  const own = [...node.childNodes].some(child => child.nodeType === 3 && child.textContent.trim());
  if (!own || !node.checkVisibility() || ["SCRIPT", "OPTION"].includes(node.tagName)) continue;
  if (node.classList.contains("unseen") || node.disabled) continue;
  const style = getComputedStyle(node), ink = node.closest("svg") ? style.fill : style.color;
  const [a, b] = [light(numbers(ink)), light(behind(node))];
  const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  if (ratio < 4.5) low.push([node.tagName, node.textContent.trim().slice(0, 30), ratio]);
}
return low;
"""
NAMELESS = """
const named = node => node.labels?.length || node.ariaLabel || node.textContent.trim();
return [...document.querySelectorAll("select, textarea, input, button, a, svg")]
  .filter(node => node.checkVisibility() && !named(node)).map(node => node.outerHTML.slice(0, 80));
"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_everything_has_contrast_and_a_name(page: Any, models: dict[str, Any], scheme: str) -> None:
    media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
    try:
        for model in models:
            Select(page.find_element(By.ID, "model")).select_by_value(model)
            for task in [own.text for own in Select(page.find_element(By.ID, "task")).options]:
                ask(page, model, task, "")
                assert page.execute_script(CONTRAST) == [], (model, task)
                assert page.execute_script(NAMELESS) == [], (model, task)
        ask(page, "words", "fill", "no gap here")
        assert page.execute_script(CONTRAST) == []
    finally:
        page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def test_the_keyboard_reaches_everything_in_order_and_shows_where_it_is(page: Any) -> None:
    ask(page, "tagger", "tag", "the dog barks")
    page.execute_script("document.activeElement.blur(); document.getElementById('model').focus()")
    reached = []
    for _ in range(12):
        own = page.switch_to.active_element
        name = own.get_attribute("id") or own.get_attribute("name") or own.text
        reached.append(name)
        outline = (
            own.value_of_css_property("outline-style"),
            own.value_of_css_property("outline-width"),
        )
        assert outline == ("solid", "3px"), name
        if name == "save":
            break
        own.send_keys(Keys.TAB)
    examples = [own.text for own in page.find_elements(By.CSS_SELECTOR, ".example")]
    wanted = ["model", "report", "task", "text", *examples, "n", "ask", "copy", "save"]
    assert reached == wanted


def test_an_example_is_asked_by_one_press(page: Any) -> None:
    Select(page.find_element(By.ID, "model")).select_by_value("ngrams")
    assert "Predicts how a sentence goes on" in page.find_element(By.ID, "about").text
    page.find_element(By.CSS_SELECTOR, ".example").send_keys(Keys.ENTER)
    answer = page.find_element(By.ID, "answer")
    WebDriverWait(page, 30).until(lambda _: answer.find_elements(By.CSS_SELECTOR, "td"))
    shown = page.find_element(By.ID, "shown")
    assert shown.get_attribute("aria-live") == "polite"
    assert answer.find_element(By.CSS_SELECTOR, "caption").text
    scopes = {own.get_attribute("scope") for own in answer.find_elements(By.CSS_SELECTOR, "th")}
    assert scopes == {"col"}


def test_the_number_of_answers_can_be_chosen(page: Any) -> None:
    Select(page.find_element(By.ID, "model")).select_by_value("ngrams")
    number = page.find_element(By.NAME, "n")
    number.clear()
    number.send_keys("2\n")
    answer = page.find_element(By.ID, "answer")
    WebDriverWait(page, 30).until(lambda _: answer.find_elements(By.CSS_SELECTOR, "td"))
    assert len(answer.find_elements(By.CSS_SELECTOR, "tr")) == 3


def test_an_answer_is_copied_and_downloaded(page: Any, address: str, tmp_path: Path) -> None:
    permission = {
        "origin": address,
        "permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"],
    }
    page.execute_cdp_cmd("Browser.grantPermissions", permission)
    downloads = {"behavior": "allow", "downloadPath": str(tmp_path)}
    page.execute_cdp_cmd("Browser.setDownloadBehavior", downloads)
    ask(page, "tagger", "tag", "the dog barks")
    page.find_element(By.ID, "copy").click()
    WebDriverWait(page, 30).until(lambda _: page.find_element(By.ID, "copied").text)
    copied = page.execute_async_script("navigator.clipboard.readText().then(arguments[0])")
    assert "barks" in copied
    assert "VBZ" in copied
    page.find_element(By.ID, "save").click()
    file = tmp_path / "tagger-tag.json"
    WebDriverWait(page, 30).until(lambda _: file.exists() and file.stat().st_size)
    saved = json.loads(file.read_text(encoding="utf-8"))
    assert saved["question"]["text"] == "the dog barks"
    assert saved["blocks"][0]["layers"] == [["DT", "NN", "VBZ"]]


def test_every_model_has_a_report(page: Any, models: dict[str, Any]) -> None:
    for model in ("words", "grid"):
        Select(page.find_element(By.ID, "model")).select_by_value(model)
        link = page.find_element(By.ID, "report").get_attribute("href")
        try:
            page.get(link)
            assert page.find_element(By.CSS_SELECTOR, "h1").text == model
            drawn = "return [...document.images].map(own => own.naturalWidth)"
            assert min(page.execute_script(drawn)) > 100
        finally:
            page.back()
            WebDriverWait(page, 30).until(
                lambda _: page.find_elements(By.CSS_SELECTOR, "#task option")
            )


def test_models_that_cannot_be_asked_are_listed_with_the_reason(
    browser: Any, models: dict[str, Any]
) -> None:
    unsuitable = CRF().fit([[["a"], ["b"]]], [["x", "y"]])
    server = make_server(Service({"good": models["ngrams"], "odd": unsuitable}), "127.0.0.1", 0)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    browser.get(f"http://127.0.0.1:{server.server_address[1]}/")
    listed = browser.find_element(By.ID, "refused")
    WebDriverWait(browser, 30).until(lambda _: listed.text)
    assert "odd" in listed.text
    assert "trained on features" in listed.text
    browser.get("about:blank")
    server.shutdown()
    server.server_close()
    thread.join()
