"""Missing labels filled in, error rates and label errors, as Markdown."""

from experiments.results import load


def completion() -> str:
    """Imputation of hidden entries, compared with other methods."""
    record = load("completion")["holes"]
    ranked, auc, loss = record["map"], record["auc"], record["logloss"]
    lines = [
        f"| {ranked['sets']} sets | AP | mean rank | AUC | log-loss | better : worse in AP, p |",
        "|---" * 6 + "|",
    ]
    for name, rank in ranked["mean_ranks"].items():
        wins, losses, p = ranked["wins_losses_p_holm"].get(name, ("", "", ""))
        lines.append(
            f"| {name} | {ranked['means'][name]:.3f} | {rank:.1f} | {auc['means'][name]:.3f} "
            f"| {loss['means'][name]:.3f} | {f'{wins} : {losses}, {p:.2g}' if p else 'reference'} |"
        )
    tox = sorted((row["auc"], row["method"]) for row in record["means"] if row["data"] == "Tox21")
    top = ", ".join(f"{value:.3f} ({name})" for value, name in reversed(tox[-4:]))
    lost = " and ".join(f'{data} (best: "{name}")' for data, name in ranked["not_first"].items())
    lines += [
        f"\nOn all data sets{lost and f' except {lost}'}, one of our methods has the best AP.",
        f"The four highest AUCs on Tox21 are {top}.",
    ]
    return "\n".join(lines)


def coupled() -> str:
    """Average precision with and without known labels, in one sentence."""
    ranked = load("completion")["holes"]["map"]
    means = ranked["means"]
    return (
        f"On {ranked['sets']} data sets, imputed labels have an average precision of "
        f"{means['ours, rbf']:.2f} with features and known labels, "
        f"{means['features, rbf']:.2f} with features alone, and {means['MICE']:.2f} with MICE "
        "([details](docs/research/imputing.md#measurements))."
    )


def new_rows() -> str:
    """New rows: joint fit of weights and covariance against none."""
    found = load("completion")["new-rows"]
    lines = [
        "| `joint` against `None` | AUC better | mean gain | ranking loss better | mean change |",
        "|---" * 5 + "|",
    ]
    for name, one in found.items():
        if name != "means":
            (auc, loss), (gain, change), n = one["better"], one["gain"], one["sets"]
            lines.append(f"| {name} | {auc} of {n} | {gain:+.4f} | {loss} of {n} | {change:+.4f} |")
    return "\n".join(lines)


def error_rates() -> str:
    """Error rates of imputed labels under error-rate control."""
    levels = load("completion")["promises"]["levels"]
    masks = dict.fromkeys(key.rpartition(", ")[0] for key in levels)
    shares = dict.fromkeys(key.rpartition(", ")[2] for key in levels)
    lines = [
        "| errors: mean, largest | " + " | ".join(f"bound {float(s):.0%}" for s in shares) + " |",
        "|---" * (len(shares) + 1) + "|",
    ]
    for mask in masks:
        cells = (levels[f"{mask}, {share}"] for share in shares)
        words = (f"{c[0]:.1%}, {c[1]:.1%}" + (f" ({c[2]})" if c[2] else "") for c in cells)
        lines.append(f"| {mask} | " + " | ".join(words) + " |")
    return "\n".join(lines)


def label_errors() -> str:
    """Share of label errors among the first hundred entries of the ranking."""
    rows = load("completion")["doubtful"]["means"]
    found = {(row["data"], row["rate"], row["method"]): row for row in rows}
    names = {
        "coupled": "features and known labels",
        "features alone": "features",
        "cleanlab": "cleanlab",
    }
    head = "| | observed | label errors | " + " | ".join(names.values()) + " | expected |"
    lines = [head, "|---" * 7 + "|"]
    for data, rate in dict.fromkeys(key[:2] for key in found):
        cells = [found[data, rate, name] for name in names]
        shares = " | ".join(f"{cell['precision']:.2f}" for cell in cells)
        lines.append(
            f"| {data} | {rate:.0%} | {cells[0]['flipped']:.0f} | {shares} "
            f"| {cells[0]['claimed']:.2f} |"
        )
    return "\n".join(lines)
