# The graph: prepare → base → search → full and layers → evaluate, weigh (→ suite) → analyze → compare → report.
# Every rule calls one `onelayer` command, which also works by hand. Run it with `snakemake --cores all`.


configfile: "params.yaml"


report: "workflow/report/workflow.rst"


include: "workflow/rules/common.smk"
include: "workflow/rules/prepare.smk"
include: "workflow/rules/train.smk"
include: "workflow/rules/evaluate.smk"
include: "workflow/rules/weigh.smk"
include: "workflow/rules/suite.smk"
include: "workflow/rules/analyze.smk"
include: "workflow/rules/report.smk"


rule all:
    default_target: True
    input:
        "reports/report.html",
        "reports/metrics.json",
        expand("data/{study}/report.html", study=STUDIES),
