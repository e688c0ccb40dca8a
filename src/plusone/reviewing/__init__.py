"""Reviewing suggested labels: questions, their order, and labels from the answers."""

from plusone.reviewing.questions import ORDERS, order_questions
from plusone.reviewing.reviewed_labels import apply_answers, class_counts, reviewed_table

__all__ = ["ORDERS", "apply_answers", "class_counts", "order_questions", "reviewed_table"]
