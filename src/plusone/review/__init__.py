"""Reviewing suggested labels: questions, their order, and labels from the answers."""

from plusone.review.answers import apply_answers, class_counts, reviewed_table
from plusone.review.questions import ORDERS, order_questions

__all__ = ["ORDERS", "apply_answers", "class_counts", "order_questions", "reviewed_table"]
