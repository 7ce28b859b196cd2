-- spend asks for one admission, see admit, and tells how far each rule is used after it.
--
-- KEYS[1]  state of the plan
-- KEYS[2]  log of the cap
-- ARGV[1]  token of the admission, at most 62 bytes
-- ARGV[2…] the plan, see read_plan
--
-- Result   {allowed (1 or 0), at in µs, now in µs, number of the rule that decides (0: none), then for each rule: used,
--          frees at in µs (0: nothing to free)}
local plan = read_plan(2, KEYS[1], KEYS[2])
local now = now_micros()
local allowed, at, why = admit(plan, now, ARGV[1])
local result = { allowed, at, now, why }
for _, rule in ipairs(plan.rules) do
  local used, frees = usage(plan, rule, now)
  result[#result + 1] = used
  result[#result + 1] = frees
end
return result
