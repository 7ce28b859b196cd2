package deploy_test

import "strings"

// history reports whether a file says what was, in the words of its time.
func history(name string) bool {
	return name == "CHANGELOG.md" ||
		strings.HasPrefix(name, "docs/adr/") || // decisions stand as they were made
		strings.HasPrefix(name, "migrations/000") && name < "migrations/00011" || // databases have run them
		strings.HasPrefix(name, "test/deploy/words_") // the list itself
}

// retiredWords are the words that must not come back. The words to use are those of docs/glossary.md.
var retiredWords = []retiredWord{
	{
		name: "lane", identifiers: "lane lanes", prose: `\blanes?\b`, stem: "lane",
		use: "partition", reason: "Kafka and asynq's readers know partitions; lane was pacer's own",
		planted: []string{"each lane has a queue", "the lanes of a deployment"},
		honest:  []string{"it was planed", "an airplane"},
	},
	{
		name: "mailbox", identifiers: "mailbox mailboxes", prose: `\bmailbox(es)?\b`, stem: "mailbox",
		use: "agenda", reason: "a mailbox is where e-mail goes, and pacer sends e-mail",
		planted: []string{"a mailbox per user", "two mailboxes wait"},
		allowed: []allowance{
			{path: "internal/push/email", reason: "where e-mail goes"},
			{path: "test/providertest/mailscripts_test.go", reason: "where e-mail goes"},
			{line: `(?i)(mailbox (full|unavailable|of an address|is))|mail`, path: "docs/channels.md", reason: "where e-mail goes"},
			{line: `(?i)(mailbox (full|unavailable|of an address|is))|mail`, path: "docs/responses.md", reason: "where e-mail goes"},
		},
	},
	{
		name: "tick", identifiers: "tick ticks", prose: `\bticks?\b`, stem: "tick",
		use: "wake-up (Wakeup)", reason: "a tick comes at fixed intervals; a wake-up comes when something is due",
		planted: []string{"the tick comes again", "ticks are anonymous"},
		honest:  []string{"a ticket", "the ticker stops"},
		allowed: []allowance{
			{line: `time\.NewTicker|tick\.Stop|tick\.C\b`, reason: "a ticker does tick"},
			{path: "test/slowlog/stall.go", reason: "the kernel's unit of time"},
		},
	},
	{
		name: "fate", identifiers: "fate fates", prose: `\bfates?\b`, stem: "fate",
		use: "disposition", reason: "AMQP's word for what became of a delivery",
		planted: []string{"the fate of an attempt"},
		honest:  []string{"it is fatal"},
	},
	{
		name: "terms", identifiers: "terms",
		use: "category settings or user limits", reason: "terms is law; these are settings",
		allowed: []allowance{{path: "internal/policy/duration.go", reason: "the terms of a sum"}},
	},
	{
		name:  "record as store",
		prose: `\b(the|its|their|as|of|keeps? the|another|no) record (in|on|with|and|is|was|before|itself|knows|has|of (what|a deployment))\b|\bin the record\b|\brecord (in|on|with) (Redis|Postgres)\b|\bthe record,`, stem: "record",
		use: "store", reason: "a record is a row; where the rows are is the store",
		planted: []string{"With the record in Postgres it is safe", "it stands in the record"},
		honest:  []string{"the records of a name service", "a DNS record", "a decision gets a record in docs/adr"},
	},
	{
		name: "box", identifiers: "box boxes",
		use: "agenda, or backlog", reason: "a box says nothing about what is in it",
		allowed: []allowance{{line: `viewBox`, reason: "an attribute of SVG"}},
	},
	{
		name: "question", identifiers: "question questions",
		use: "Request, or take request", reason: "every protocol says request",
		allowed: []allowance{
			{path: "internal/egress/egresstest", reason: "DNS has questions"},
			{path: "test/faults/dns_test.go", reason: "DNS has questions"},
			{path: "cmd/dispatcher/actions.go", reason: "operators are asked whether they mean it"},
			{path: "internal/ops/static/", reason: "operators are asked whether they mean it"},
		},
	},
	{
		name: "answer", identifiers: "answer answers answered",
		use: "Result, or response, or reply", reason: "functions return results, HTTP has responses, Redis replies",
		allowed: []allowance{
			{path: "internal/egress/egresstest", reason: "DNS has answers"},
			{path: "test/faults/dns_test.go", reason: "DNS has answers"},
		},
	},
	{
		name: "keeper", identifiers: "keeper keepers", prose: `\bkeepers?\b`, stem: "keeper",
		use: "the actor's task: forwarder, watcher, server", reason: "everything keeps something",
		planted: []string{"the keeper of a queue"},
		honest:  []string{"a bookkeeper"},
	},
	{
		name: "endings", identifiers: "endings",
		use: "acknowledge, or end", reason: "AMQP and asynq acknowledge tasks",
	},
	{
		name: "guard", identifiers: "guard guards",
		use: "caller limit for the API's own rate limit", reason: "a guard can guard anything",
	},
	{
		name: "auditor", identifiers: "auditor auditors audited", prose: `\bauditors?\b|\bis audited\b`, stem: "audit",
		use: "invariant checker", reason: "audit means the audit log: who did what",
		planted: []string{"the auditor found it", "the store is audited"},
	},
	{
		name: "audit trail", prose: `\baudit trail\b`, stem: "audit",
		use: "audit log", reason: "one word for one thing",
		planted: []string{"it stands in the audit trail"},
	},
	{
		name: "rest", identifiers: "rests rested resting", prose: `\b(rested|resting)\b|\b(it|channel|category|partition|what) rests\b|\bpartitions? rest\b`, stem: "rest",
		use: "pause", reason: "operators pause and resume; BullMQ and asynq say the same",
		planted: []string{"a resting partition", "what rests must wait", "have a partition rest"},
		honest:  []string{"the rest of a slice", "all the rest goes on"},
	},
	{
		name: "mend", identifiers: "mend mends mended undo",
		use: "refund, or restore", reason: "refund is the limiter's word for taking an admission back",
		allowed: []allowance{{path: "test/faults/network_test.go", reason: "mends a broken network"}},
	},
	{
		name: "facts", identifiers: "facts",
		use: "the name of what it lists", reason: "everything in a program is a fact",
	},
	{
		name: "candidate", identifiers: "candidate candidates", prose: `\bcandidates?\b`, stem: "candidate",
		use: "notification", reason: "one word for what a producer hands over",
		planted: []string{"a candidate is checked"},
		allowed: []allowance{
			{path: "scripts/", reason: "a release candidate; a program that may be the one"},
			{path: "internal/settings/environment.go", reason: "a name that may be meant"},
		},
	},
	{
		name: "judge", identifiers: "judge judges judged",
		use: "a verb that names what comes out: classifyResponse, decide", reason: "a judge may say anything",
	},
	{
		name: "alarm", identifiers: "alarm alarms",
		use: "wake-up (Wakeup)", reason: "one word for the task that stands for a user",
		allowed: []allowance{{path: "deploy/", reason: "what monitoring raises"}, {path: "internal/ops/static/", reason: "what the dashboard raises"}},
	},
}
