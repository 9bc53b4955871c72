/*
 * One effect key, at most one act: the rules of the effect's record, made small enough to try them all.
 *
 * README.md beside this file says what is modelled, what each switch takes away, and what the
 * model cannot say.
 *
 *   spin -a -DFENCE effect.pml && gcc -O2 -DSAFETY -o pan pan.c && ./pan -E
 *
 * Sizes:     WORKERS  processes that call            CALLS   calls that each makes
 *            PEOPLE   persons who answer             ANSWERS answers that each gives
 * Means:     FENCE    executors look at the record directly before they send
 *            KEYS     the provider acts once for an idempotency key
 * Taken away: GAP              time passes between the fence and the send
 *             UNBOUND_ANSWER   an answer lands on whichever attempt stands there
 *             UNBOUND_OUTCOME  an outcome is bound to the action's id, which a retry keeps
 *             LIE              a person says FAILED without looking
 * Control:   WITNESS  claims that no second attempt ever acts, which is false
 */

#ifndef WORKERS
#define WORKERS 2
#endif
#ifndef CALLS
#define CALLS 2
#endif
#ifndef PEOPLE
#define PEOPLE 2
#endif
#ifndef ANSWERS
#define ANSWERS 2
#endif

mtype = { none, executing, committed, failed, ambiguous };

/* The record, as the store keeps it. Reserving and beginning are one transaction. */
mtype state = none;
byte attempt = 0;
bool live = false;		/* the lease has not lapsed */

/* The remote: how often it acted. */
byte acts = 0;

#define own	(state == executing && attempt == mine)
#ifdef UNBOUND_OUTCOME
#define writable (state == executing)
#else
#define writable own
#endif

inline send() {
#ifdef KEYS
	acts = 1;
#else
	acts++;
#endif
	assert(acts <= 1);
#ifdef WITNESS
	assert(mine == 1);
#endif
}

/* Time: a lease that is live may lapse at any moment. */
active proctype Time() {
end:	do
	:: atomic { live -> live = false }
	od
}

/* A process that calls, and is killed, stopped or slow at any step: a step may never come. */
active [WORKERS] proctype Worker() {
	byte calls = 0;
	byte mine = 0;		/* the attempt that this call holds */
	bool sent = false;

again:	atomic {
		mine = 0; sent = false;
		if
		:: calls == CALLS -> goto done
		:: else -> calls++
		fi;
		/* One transaction: reserve and begin, or be refused. */
		if
		:: state == none || state == failed ->
			state = executing; attempt++; live = true; mine = attempt
		:: state == executing && !live ->
			state = ambiguous; goto again	/* kept although the call is refused */
		:: else -> goto again			/* in progress, committed, ambiguous */
		fi
	}

	/* The executor. */
	if
	:: goto again				/* killed before it sent; restarted */
	:: goto not_executed			/* the remote was never asked, and it says so */
	:: goto unknown				/* an error of its own, before it sent */
	:: skip
	fi;
#ifdef FENCE
#ifdef GAP
	if
	:: atomic { own && live -> skip }
	:: atomic { !(own && live) -> goto not_executed }
	fi;
	atomic { send(); sent = true };
#else
	/* The assumption: nothing happens between the fence and the first byte. */
	atomic {
		if
		:: own && live -> send(); sent = true
		:: else -> goto not_executed
		fi
	};
#endif
#else
	atomic { send(); sent = true };
#endif
	if
	:: goto again				/* killed after it sent */
	:: goto unknown				/* the reply was lost */
	:: skip
	fi;

	/* The outcome's write: refused, it changes nothing. */
	atomic {
		if
		:: writable -> state = committed; live = false; assert(acts >= 1)
		:: else
		fi;
		goto again
	};

not_executed:
	atomic {
		assert(!sent);
		if
		:: writable -> state = failed; live = false
		:: else
		fi;
		goto again
	};

unknown:
	atomic {
		if
		:: writable -> state = ambiguous; live = false
		:: else
		fi;
		goto again
	};

done:	skip
}

/* A person, or a reconcile hook: looks at the remote, takes their time, and answers truthfully. */
active [PEOPLE] proctype Person() {
	byte answers = 0;
	byte seen = 0;		/* the attempt that was looked at */
	bool happened = false;

end:	do
	:: answers < ANSWERS ->
		atomic {
			state == ambiguous ->
			answers++;
			seen = attempt;
#ifdef LIE
			happened = false
#else
			happened = (acts > 0)
#endif
		};
		atomic {
			if
#ifdef UNBOUND_ANSWER
			:: state == ambiguous ->
#else
			:: state == ambiguous && attempt == seen ->
#endif
				if
				:: happened -> state = committed
				:: else -> state = failed
				fi
			:: else			/* refused: another attempt stands there, or an answer */
			fi;
			seen = 0; happened = false
		}
	:: else -> break
	od
}
