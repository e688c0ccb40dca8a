"""Asking a person about suggested labels: which questions, in which order, and what they change."""

from plusone.review.answers import apply_answers
from plusone.review.queue import ORDERS, order_questions

__all__ = ["ORDERS", "apply_answers", "order_questions"]
