-- A fixed window begins with its first admission: `from` is its start (nil: none yet), `load` the admissions in it.
-- Limits over the same window share it, since they count the same admissions.

local function passed(c, rule, at) return not c.from or at >= c.from + rule.per end

return {
  passed = passed,

  bound = function(c, rule)
    if not c.from or c.load < rule.max then return c.from end
    return c.from + rule.per
  end,

  charge = function(c, rule, at)
    if passed(c, rule, at) then c.from, c.load = at, 1 else c.load = c.load + 1 end
  end,

  refund = function(c, rule, at)
    if at < c.from or passed(c, rule, at) then return false end
    c.load = c.load - 1
    return true
  end,

  usage = function(c, rule, now)
    if passed(c, rule, now) or c.load == 0 then return 0, 0 end
    return c.load, c.from + rule.per
  end,
}
