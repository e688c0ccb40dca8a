"""Written support tickets, to try texts on: several topics each, one of them seen."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import numpy as np

from plusone.data.formats import write
from plusone.data.matrix import LabelMatrix
from plusone.data.table import TEXT, TEXT_IDS, LabelTable
from plusone.errors import InputError
from plusone.io.files import part_folder

MOST = 20_000  # tickets
ANY_NUMBER = (0.35, 0.35, 0.2, 0.1)  # how often a ticket has 1, 2, 3 and 4 topics
SENTENCES = {
    "account": (
        "I cannot sign in any more, my password is refused.",
        "The link that should reset my password never arrives.",
        "My profile still shows my old e-mail address and I see no way to change it.",
        "Somebody else seems to be logged in with my name.",
        "After the second wrong code I was locked out.",
        "Two-factor codes from my phone are rejected.",
        "Please merge the two user names that I have with you.",
        "Registration fails at the last step, it says that the name is taken.",
    ),
    "payment": (
        "My card was charged twice on {day}.",
        "The bank transfer left my account, but you show the sum as open.",
        "Your checkout declines every credit card I own.",
        "I would like to pay by direct debit from now on.",
        "There is an amount of {number} euros on my statement that I do not recognise.",
        "Paying with my phone ends in an error every time.",
        "Can I split the sum over {number} months?",
        "The instalment was debited earlier than agreed.",
    ),
    "refund": (
        "I want my money back.",
        "You promised to return the sum within {number} days and nothing came.",
        "When will I be reimbursed?",
        "Only half of what I had paid was credited back to me.",
        "Please cancel the purchase and send the amount to my account.",
        "I sent the goods back weeks ago and still wait for the repayment.",
        "A voucher is no substitute, I prefer cash.",
        "How do I claim compensation for this?",
    ),
    "delivery": (
        "The parcel should have come on {day} and is nowhere to be seen.",
        "Tracking has not moved since {day}.",
        "The courier left the box with a neighbour I do not know.",
        "Is it possible to ship to another address?",
        "It has been on its way for {number} days now.",
        "The driver did not ring and took everything back to the depot.",
        "Do you deliver to islands as well?",
        "Only one of the {number} boxes has arrived.",
    ),
    "damage": (
        "The {product} came with a cracked case.",
        "One leg of the {product} is bent.",
        "When I unpacked it, pieces of glass fell out.",
        "There is a deep scratch across the front.",
        "It worked for {number} days, then smoke came out.",
        "The {product} does not switch on at all.",
        "A screw is missing and the lid is broken off.",
        "The seam tore open the first time I used it.",
    ),
    "app": (
        "Your app closes by itself as soon as I open the basket.",
        "Since the update the screen stays white.",
        "On my tablet the buttons overlap.",
        "The website freezes whenever I filter the list.",
        "Notifications keep coming although I switched them off.",
        "Search finds nothing, whatever I type.",
        "It crashes with error {number} on older phones.",
        "Photos that I upload are turned upside down.",
    ),
    "speed": (
        "Every page takes half a minute to load.",
        "It has become terribly slow lately.",
        "I wait and wait and the wheel keeps spinning.",
        "In the evening hardly anything responds.",
        "Typing lags behind by several seconds.",
        "What took a moment last year takes ages today.",
        "The connection times out again and again.",
        "Even a fast line does not help, everything crawls.",
    ),
    "cancel": (
        "I hereby terminate my subscription.",
        "How can I quit the membership at the end of the month?",
        "Please do not renew the contract after {day}.",
        "I no longer need the service and want to leave.",
        "The button to unsubscribe does not do anything.",
        "My plan was extended although I had given notice.",
        "End the trial before it costs me anything.",
        "We are moving abroad, so stop the agreement, please.",
    ),
    "privacy": (
        "Delete everything that you have stored about me.",
        "Who did you pass my data on to?",
        "I never agreed to advertising by mail.",
        "Please send me a copy of all personal information that you keep.",
        "My phone number should not be visible to others.",
        "I object to my orders being used for statistics.",
        "Why do you need my date of birth?",
        "I read about a leak in the news, am I affected?",
    ),
    "invoice": (
        "I need a receipt with our company's name on it.",
        "The bill shows the wrong VAT rate.",
        "Could you send the document for {day} as PDF?",
        "Our accountant says that the tax number is missing.",
        "The total on paper is not what was agreed.",
        "Please put our order number on the bill.",
        "We never got any paperwork for the last quarter.",
        "The address at the top of the document is out of date.",
    ),
    "discount": (
        "The coupon code is said to be expired, which it is not.",
        "Do students get a lower price?",
        "Yesterday the same {product} cost {number} euros less.",
        "The promotion on your front page was not deducted.",
        "We order {number} pieces, is there a rebate?",
        "My loyalty points have vanished.",
        "A competitor sells it cheaper, will you match that?",
        "I forgot to enter the gift card, can it be applied later?",
    ),
    "exchange": (
        "The {product} is too small, I need it one size larger.",
        "I got the blue one, but I wanted green.",
        "Can I swap it for another model?",
        "You sent me somebody else's {product}.",
        "It does not fit, what else do you have?",
        "Please replace it with the version for left-handers.",
        "I picked the wrong colour by mistake.",
        "Instead of the {product} there was a book in the box.",
    ),
}
TOPICS = tuple(sorted(SENTENCES))
OPENINGS = (
    "Hello,", "Good morning,", "Dear team,", "Hi there,", "To whom it may concern:",
    "I have been a customer for {number} years.", "This is my second message.", "", "",
)  # fmt: skip
LINKS = ("", "", "Also:", "Besides,", "And another thing.", "By the way,", "What is more:")
ENDINGS = (
    "Thank you.", "Kind regards", "Please answer soon.", "I hope that you can help.",
    "This is urgent.", "Not amused.", "Yours, a patient customer", "", "",
)  # fmt: skip
WORDS = {
    "product": ("lamp", "chair", "kettle", "jacket", "backpack", "radio", "table", "helmet"),
    "day": ("Monday", "Tuesday", "Friday", "the 3rd", "the 14th", "the 28th", "last weekend"),
    "number": ("3", "4", "5", "7", "9", "12", "14", "20", "30"),
}


def draw_tickets(count: int, seed: int = 0) -> LabelTable:
    """Tickets with all their topics; the seen one is drawn in proportion to the sentences of each.

    >>> table = draw_tickets(2)
    >>> len(table.texts), table.labels.per_item(1).tolist()
    (2, [1, 1])
    """
    rng = np.random.default_rng(seed)
    said = np.zeros((count, len(TOPICS)), dtype=np.int64)
    texts = []
    for row in range(count):
        many = 1 + rng.choice(len(ANY_NUMBER), p=ANY_NUMBER)
        parts = [rng.choice(OPENINGS)]
        for place, topic in enumerate(rng.permutation(len(TOPICS))[:many]):
            said[row, topic] = rng.integers(1, 4 - (many > 2))
            chosen = rng.permutation(SENTENCES[TOPICS[topic]])[: said[row, topic]]
            parts += [rng.choice(LINKS) if place else "", *chosen]
        parts.append(rng.choice(ENDINGS))
        words = {name: rng.choice(some) for name, some in WORDS.items()}
        texts.append(" ".join(part.format(**words) for part in parts if part))
    ends = said.cumsum(axis=1) / said.sum(axis=1, keepdims=True)
    seen = (rng.random((count, 1)) < ends).argmax(axis=1)
    labels = LabelMatrix.from_entries(np.arange(count), seen, 1, said.shape)
    truth = LabelMatrix.from_dense(np.where(said > 0, 1, -1).astype(np.int8), default=-1)
    ids = np.array([f"ticket-{row:05d}" for row in range(count)])
    return LabelTable(ids, TOPICS, labels, truth, texts=tuple(texts))


def write_tickets(
    folder: Path, items: int = 1000, *, audited: int = 100, new: int = 50, seed: int = 0
) -> None:
    """Writes tickets with one topic each, and the files that go with them; all or nothing.

    | file | content |
    | --- | --- |
    | `tickets.csv` | texts with their one seen topic, `id,text,labels` |
    | `audit.csv` | all topics of a random sample of them |
    | `new.csv` | texts without topics, `id,text` |
    | `test.csv` | the same texts with all their topics |
    """
    if not (1 <= audited <= items and new >= 1 and items + new <= MOST):
        raise InputError(f"between 1 and {MOST} tickets can be written, not {items} and {new}")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder}: exists already; choose a new folder")
    table = draw_tickets(items + new, seed)
    assert table.truth is not None
    complete = replace(table, labels=table.truth)
    chosen = np.sort(np.random.default_rng(seed).permutation(items)[:audited])
    unlabelled = np.arange(items, items + new)
    with part_folder(folder) as temporary:
        example = temporary / "example"
        example.mkdir()
        seen = table.take(np.arange(items))
        write(replace(seen, truth=None), example / "tickets.csv")
        for name, rows in (("audit.csv", chosen), ("test.csv", unlabelled)):
            write(complete.take(rows), example / name)
        with (example / "new.csv").open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow((TEXT_IDS[0], TEXT))
            of_new = table.take(unlabelled)
            writer.writerows(zip(of_new.ids.tolist(), of_new.texts or (), strict=True))
        example.rename(folder)
