-- allow asks for one admission, see admit.
--
-- KEYS[1]  state of the plan
-- KEYS[2]  log of the cap
-- ARGV[1]  token of the admission, at most 64 bytes
-- ARGV[2…] the plan, see read_plan
--
-- Result   {allowed (1 or 0), at in µs, now in µs, number of the rule that decides (0: none)}; for a refusal `at` is
--          the earliest moment at which it could be allowed.
local plan = read_plan(2, KEYS[1], KEYS[2])
local now = now_micros()
local allowed, at, why = admit(plan, now, ARGV[1])
return { allowed, at, now, why }
