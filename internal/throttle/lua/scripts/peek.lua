-- peek reports what a plan would allow now, and how far each rule is used. It writes nothing.
--
-- KEYS[1]  state of the plan
-- KEYS[2]  log of the user's cap
-- KEYS[3…] logs of the named caps
-- ARGV[1…] the plan, see read_plan
--
-- Result   {at in µs, now in µs, what decides (0: nothing, see opened), then for each rule: used, frees at in µs
--          (0: nothing to free)}
local plan = read_plan(1, KEYS[1], KEYS[2])
for n, cap in ipairs(plan.named) do cap.key = KEYS[2 + n] end
local now = now_micros()
local at, why = decide(plan, now)
local result = { at, now, why }
for _, rule in ipairs(plan.rules) do
  local used, frees = usage(plan, rule, now)
  result[#result + 1] = used
  result[#result + 1] = frees
end
return result
