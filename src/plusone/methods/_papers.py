"""The papers of the method table, and the tables whose figures are quoted beside our own."""

from __future__ import annotations

COLE = "Cole et al., Multi-Label Learning from Single Positive Labels, CVPR"
ZHOU = "Zhou et al., Acknowledging the Unknown, ECCV"
CHEN = "Chen et al., Generalized Robust Loss, IJCAI"
LIN = "Lin et al., Focal Loss for Dense Object Detection, ICCV"
RIDNIK = "Ridnik et al., Asymmetric Loss for Multi-Label Classification, ICCV"
ZHANG = "Zhang et al., Simple and Robust Loss Design with Missing Labels, arXiv"
KIM = "Kim et al., Large Loss Matters in Weakly Supervised Multi-Label Classification, CVPR"
VERELST = "Verelst et al., Spatial Consistency Loss, WACV"
XIE = "Xie et al., Label-Aware Global Consistency, NeurIPS"
XING = "Xing et al., Vision-Language Pseudo-Labels, CVPR Workshops"
TRAN = "Tran et al., More Reliable Pseudo-labels, Better Performance, ICCV"
LASD = "Leveraged Asymmetric Loss with Disambiguation, submitted to ICLR"

COLE_TABLE_1 = "Cole et al., Multi-Label Learning from Single Positive Labels, CVPR 2021, Table 1"
COLE_TABLE_2 = "Cole et al., Multi-Label Learning from Single Positive Labels, CVPR 2021, Table 2"
COLE_TABLE_A1 = "Cole et al., Multi-Label Learning from Single Positive Labels, CVPR 2021, Table A1"
ZHOU_TABLE = (
    "Zhou et al., Acknowledging the Unknown for Multi-label Learning with Single Positive Labels, "
    "ECCV 2022"
)
BOOSTLU = (
    "Kim et al., Bridging the Gap between Model Explanations in Partially Annotated Multi-label "
    "Classification, CVPR 2023, results with a single positive label"
)
LIU_TABLE_1 = (
    "Liu et al., Can Class-Priors Help Single-Positive Multi-Label Learning?, arXiv 2309.13886 "
    "(2023, last version), Table 1"
)
LASD_TABLE_2 = (
    "Leveraged Asymmetric Loss with Disambiguation for Multi-label Recognition with One-Positive "
    "Annotations, submitted to ICLR 2023, Table 2"
)
CHEN_TABLE_2 = (
    "Chen et al., Boosting Single Positive Multi-label Classification with Generalized Robust "
    "Loss, IJCAI 2024, Table 2"
)
TRAN_TABLE = (
    "Tran et al., AEVLP, ICCV 2025, its table for ResNet-50 (https://arxiv.org/abs/2508.20381)"
)
XIE_TABLE_2 = (
    "Xie et al., Label-Aware Global Consistency for Multi-Label Learning with Single Positive "
    "Labels, NeurIPS 2022, Table 2, with its label-wise embeddings (LEM)"
)
XIE_TABLE_2_RESNET = (
    "Xie et al., Label-Aware Global Consistency for Multi-Label Learning with Single Positive "
    "Labels, NeurIPS 2022, Table 2, its columns for ResNet-50"
)
