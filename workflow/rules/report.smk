rule compare:
    input:
        analyses=expand("data/{study}/analysis.json", study=STUDIES),
        published=[str(path) for path in published_files()],
    output:
        report(
            "reports/metrics.json",
            caption="../report/metrics.rst",
            category="Figures to compare",
            labels={"study": "all"},
        ),
    log:
        "logs/compare.log",
    params:
        studies=STUDIES,
        published=PARAMS.report.published,
    shell:
        "onelayer compare {params.studies} 2>&1 | tee {log}"


rule report:
    input:
        analyses=expand("data/{study}/analysis.json", study=STUDIES),
        metrics="reports/metrics.json",
    output:
        report(
            "reports/report.html",
            caption="../report/page.rst",
            category="Pages",
            labels={"study": "all"},
        ),
    log:
        "logs/report.log",
    params:
        studies=STUDIES,
        options=PARAMS.report.model_dump(mode="json"),
    shell:
        "onelayer report {params.studies} 2>&1 | tee {log}"
