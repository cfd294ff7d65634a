"""What the paper reports, to stand beside ours: means, and spreads where it gives them.

C. Sutton, A. McCallum: Piecewise training for structured prediction, Machine Learning 77, 2009.
Table 8 calls the figure of chunking an accuracy; times are seconds of its machines.
"""

Figure = tuple[float, float | None]  # mean, standard deviation

TABLE_4: dict[str, Figure] = {
    "pw": (91.2, None),
    "pl": (84.7, None),
    "edge-pl": (89.7, None),
    "ml": (90.6, None),
}
TABLE_5: dict[str, Figure] = {
    "pw": (88.1, 0.48),
    "pl": (84.9, 0.39),
    "edge-pl": (86.5, 0.64),
    "bp": (86.0, 0.39),
}
TABLE_6: dict[str, dict[str, Figure]] = {
    "location": {
        "pw": (87.7, 1.2),
        "pl": (67.1, 4.8),
        "edge-pl": (76.9, 4.1),
        "bp": (86.6, 1.5),
    },
    "speaker": {"pw": (75.4, 2.5), "pl": (25.5, 4.2), "edge-pl": (69.3, 3.0), "bp": (78.2, 1.8)},
}
TABLE_7: dict[str, dict[str, Figure]] = {
    "names": {"pw": (91.2, None), "pw-reweighted": (90.4, None)},
    "chunks-223": {"pw": (88.1, None), "pw-reweighted": (86.4, None)},
    "location": {"pw": (87.7, None), "pw-reweighted": (75.5, None)},
    "speaker": {"pw": (75.4, None), "pw-reweighted": (69.2, None)},
}
TABLE_8: dict[str, dict[str, Figure]] = {
    "tags": {"ml": (94.4, 0.07), "pl": (94.4, 0.05), "pw": (94.3, 0.08), "pwpl": (94.4, 0.07)},
    "chunks-447": {
        "bp": (91.4, 0.21),
        "pl": (90.3, 0.19),
        "pw": (91.7, 0.14),
        "pwpl": (91.4, 0.12),
    },
    "names": {"ml": (90.5, None), "pl": (85.1, None), "pw": (90.5, None), "pwpl": (90.3, None)},
}
TABLE_8_SECONDS: dict[str, dict[str, Figure]] = {
    "tags": {
        "ml": (33846, 6800),
        "pl": (6705, 740),
        "pw": (23537, 8700),
        "pwpl": (3911, 1500),
    },
    "chunks-447": {
        "bp": (24769, 6183),
        "pl": (1534, 165),
        "pw": (5708, 701),
        "pwpl": (766, 83),
    },
    "names": {"ml": (52396, None), "pl": (8651, None), "pw": (6311, None), "pwpl": (4780, None)},
}
TABLE_9: dict[str, dict[str, Figure]] = {
    "stime": {"bp": (96.5, 2.3), "pl": (82.2, 6.1), "pw": (97.1, 0.42), "pwpl": (94.1, 0.78)},
    "etime": {"bp": (95.9, 2.4), "pl": (73.4, 3.8), "pw": (96.5, 0.49), "pwpl": (90.4, 2.7)},
    "location": {"bp": (85.8, 5.2), "pl": (73.0, 2.1), "pw": (88.1, 1.2), "pwpl": (85.3, 1.6)},
    "speaker": {"bp": (74.5, 5.7), "pl": (27.9, 3.1), "pw": (72.7, 3.1), "pwpl": (65.0, 5.2)},
}
FIGURE_3 = "PL slightly better over all, not significantly (paired t-test, p > 0.1)"
FIGURE_4 = "PWPL better on little data, PL on much; PWPL comes to its limit faster"
PW_AND_PWPL = "mean difference in testing error 0.002, correlation 0.999"
